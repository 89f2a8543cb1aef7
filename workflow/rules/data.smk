rule fetch:
    output:
        "results/fetched/{dataset}.json",
    log:
        "results/fetched/{dataset}.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.fetch_params,
    message:
        "fetch {wildcards.dataset}"
    shell:
        "python -m shared.data fetch {wildcards.dataset} 2>&1 | tee -i {log}"


rule prepare:
    input:
        PLAN.prepare_inputs,
    output:
        "results/prepared/{dataset}/manifest.json",
    log:
        "results/prepared/{dataset}/prepare.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.prepare_params,
    message:
        "prepare {wildcards.dataset}"
    shell:
        "python -m shared.data prepare {wildcards.dataset} 2>&1 | tee -i {log}"
