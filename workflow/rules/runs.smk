# A run takes a GPU where there is one; how many there are says `resources: gpu` of the profile.
GPUS = int(has_gpu())


rule run:
    input:
        PLAN.run_inputs,
    output:
        "results/{scale}/runs/{paper}/{experiment}/{arm}/seed-{seed}/metrics.parquet",
        "results/{scale}/runs/{paper}/{experiment}/{arm}/seed-{seed}/settings.json",
        "results/{scale}/runs/{paper}/{experiment}/{arm}/seed-{seed}/provenance.json",
    log:
        "results/{scale}/runs/{paper}/{experiment}/{arm}/seed-{seed}/run.log",
    conda:
        "../../environment.yml"
    threads: PLAN.run_threads
    resources:
        gpu=GPUS,
    params:
        job=PLAN.run_params,
    message:
        "run {wildcards.paper}/{wildcards.experiment}/{wildcards.arm}/seed-{wildcards.seed}"
    shell:
        "python -m shared.training.run {wildcards.paper} {wildcards.experiment} {wildcards.arm}"
        " --seed {wildcards.seed} --scale {wildcards.scale} {params.job[overrides]}"
