# `snakemake` looks here first; the workflow stands in workflow/Snakefile.
include: "workflow/Snakefile"


# Snakemake forgets the default target of an included file.
rule default:
    default_target: True
    input:
        PLAN.pages,
