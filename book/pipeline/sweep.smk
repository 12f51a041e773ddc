"""A run of a sweep: a chapter with parameters that `book.pipeline.sweep` laid out."""


def laid_out(wildcards) -> str:
    """The file of a run's parameters; its folder is named after the chapter."""
    return str(next(Path(f"build/sweeps/{wildcards.sweep}/parameters").glob(f"*/{wildcards.run}.yaml")))


def swept(wildcards) -> str:
    """The notebook of a run."""
    return f"notebooks/{Path(laid_out(wildcards)).parent.name}.ipynb"


rule sweep:
    input:
        notebook=swept,
        parameters=laid_out,
        code=lambda wildcards: code_of(swept(wildcards)),
        environment="constraints.txt",
    output:
        notebook="build/sweeps/{sweep}/notebooks/{run}.ipynb",
        run="build/sweeps/{sweep}/runs/{run}.json",
    log:
        "build/sweeps/{sweep}/logs/{run}.txt",
    params:
        # No output: what a failed run has put there, Snakemake would remove, and its record took hours.
        results=lambda wildcards: (
            f"build/sweeps/{wildcards.sweep}/results/{wildcards.run}/{Path(swept(wildcards)).stem}"
        ),
    resources:
        mem_mb=config.get("megabytes", MEGABYTES["quick"]),
        runtime=config.get("minutes", MINUTES["quick"]),
    shell:
        "{sys.executable:q} -m book.pipeline.execute {input.notebook:q} {output.notebook:q} --parameters "
        "{input.parameters:q} --results {params.results:q} --run {output.run:q} --log {log:q}"
