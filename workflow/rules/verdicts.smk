rule collect:
    input:
        PLAN.run_files("metrics.parquet"),
        PLAN.run_files("settings.json"),
    output:
        "results/{scale}/metrics/{paper}.parquet",
    log:
        "results/{scale}/metrics/{paper}.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.collect_params,
    message:
        "collect {wildcards.paper}"
    shell:
        "python -m shared.claims collect {wildcards.paper} --scale {wildcards.scale} {params.job[seeds]}"
        " 2>&1 | tee -i {log}"


rule judge:
    input:
        "results/{scale}/metrics/{paper}.parquet",
    output:
        "results/{scale}/verdicts/{paper}.json",
    log:
        "results/{scale}/verdicts/{paper}.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.judge_params,
    message:
        "judge {wildcards.paper}"
    shell:
        "python -m shared.claims judge {wildcards.paper} --scale {wildcards.scale} {params.job[seeds]}"
        " 2>&1 | tee -i {log}"
