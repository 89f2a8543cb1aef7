# Speed of the norms beside their peers, on whatever device is there.


rule benchmark:
    output:
        "results/benchmark/benchmark.json",
    log:
        "results/benchmark/benchmark.log",
    conda:
        "../../environment.yml"
    # Alone on the machine: a neighbour would be measured too.
    threads: workflow.cores
    resources:
        gpu=GPUS,
    params:
        job=PLAN.benchmark_params,
    message:
        "benchmark of the norms"
    shell:
        "python -m shared.norms.benchmark --out {output} 2>&1 | tee -i {log}"


rule benchmark_page:
    input:
        "results/benchmark/benchmark.json",
    output:
        "reports/benchmark.html",
    log:
        "reports/logs/benchmark.log",
    conda:
        "../../environment.yml"
    params:
        job=PLAN.benchmark_page_params,
    message:
        "page of the benchmark"
    shell:
        "python -m shared.reporting benchmark 2>&1 | tee -i {log}"
