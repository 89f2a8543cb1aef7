SCALE = PLAN.scale


rule notebook:
    input:
        f"results/{SCALE}/metrics/{{paper}}.parquet",
        f"results/{SCALE}/verdicts/{{paper}}.json",
        PLAN.run_files("provenance.json"),
    output:
        "reports/notebooks/{paper}.ipynb",
    log:
        "reports/logs/{paper}.notebook.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.report_params,
    message:
        "notebook {wildcards.paper}"
    shell:
        "python -m shared.reporting notebook {wildcards.paper} --scale {params.job[scale]} {params.job[seeds]}"
        " 2>&1 | tee -i {log}"


rule page:
    input:
        f"results/{SCALE}/metrics/{{paper}}.parquet",
        f"results/{SCALE}/verdicts/{{paper}}.json",
        "reports/notebooks/{paper}.ipynb",
        PLAN.run_files("provenance.json"),
    output:
        "reports/{paper}.html",
    log:
        "reports/logs/{paper}.page.log",
    wildcard_constraints:
        paper=r"(?!(index|benchmark)\.html$)[a-z0-9][a-z0-9_.-]*",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.report_params,
    message:
        "page {wildcards.paper}"
    shell:
        "python -m shared.reporting page {wildcards.paper} --scale {params.job[scale]} {params.job[seeds]}"
        " 2>&1 | tee -i {log}"


rule index:
    input:
        PLAN.index_inputs,
    output:
        "reports/index.html",
    log:
        "reports/logs/index.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.index_params,
    message:
        "index of the papers"
    shell:
        "python -m shared.reporting index --scale {params.job[scale]} 2>&1 | tee -i {log}"
