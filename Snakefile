"""The one pipeline: notebook x profile -> executed notebook + results -> book.

`make book` runs it; `snakemake --cores 2 build/quick/reproduced.txt` does the same by hand, and
`make book FLAGS="--profile book/pipeline/slurm"` runs the chapters on a cluster.
"""

import sys
from pathlib import Path

sys.path.insert(0, workflow.basedir)

from book.pipeline.reached import (
    BESIDE,
    about_to_run,
    chapters_of,
    files_reached,
    needs,
    own_records,
    priority,
)

PROFILE = config.get("profile", "quick")
# Limits for a cluster's scheduler, in minutes and megabytes. Those of smoke and quick are measured (see the status page),
# with a margin; those of paper are estimated from the sizes of models.
MINUTES = {"smoke": 10, "quick": 60, "paper": 48 * 60}
MEGABYTES = {"smoke": 2_000, "quick": 4_000, "paper": 8_000}
MORE_MEGABYTES = {
    ("paper", "algorithmic_reasoning"): 64_000,  # a model of 1e9 parameters: weights, gradients, moments, a checkpoint
    ("paper", "classification_dynamics"): 24_000,
    ("paper", "translation_dynamics"): 24_000,
}


def megabytes(wildcards) -> int:
    """What a chapter with this profile is given."""
    return MORE_MEGABYTES.get((wildcards.profile, wildcards.notebook), MEGABYTES[wildcards.profile])


def files(folder: str, *suffixes: str) -> list[str]:
    """Every file below a folder that has one of the suffixes (any file where none is given)."""
    found = (path for path in Path(folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(str(path) for path in found if not suffixes or path.suffix in suffixes)


def needed(wildcards) -> list[str]:
    """How the runs of those chapters went whose models this one takes: they come first."""
    before = needs(wildcards.profile)[wildcards.notebook]
    return expand("build/{profile}/runs/{notebook}.json", profile=wildcards.profile, notebook=before)


def executed(profile: str) -> list[str]:
    """What the book needs of every chapter: the executed notebook, and how the run went."""
    both = ("build/{profile}/notebooks/{notebook}.ipynb", "build/{profile}/runs/{notebook}.json")
    return expand(both, profile=profile, notebook=chapters_of(profile))


def code_of(notebook: str) -> list[str]:
    """What executes a chapter, and what its cells reach by import: change a line of it and the chapter runs again.

    Trained models are cached by the code that makes them, so an edit of a plot does not train anything anew.
    """
    return files_reached(("book.pipeline.execute",), notebook)


def laid_out(wildcards) -> str:
    """The file of the parameters of a sweep's run; its folder is named after the chapter."""
    return str(next(Path(f"build/sweeps/{wildcards.sweep}/parameters").glob(f"*/{wildcards.run}.yaml")))


def swept(wildcards) -> str:
    """The chapter of a sweep's run."""
    return Path(laid_out(wildcards)).parent.name


def recorded_in(wildcards) -> str:
    """Where a sweep's run records: in `results/`, if the sweep says so."""
    folder = config.get("results") or f"build/sweeps/{wildcards.sweep}/results/{wildcards.run}"
    return f"{folder}/{swept(wildcards)}"


EXECUTE = (
    "{sys.executable:q} -m book.pipeline.execute {input.notebook:q} {output.notebook:q} "
    "--parameters {input.parameters:q} --log {log:q} "
)
# The API pages are the docstrings of the package.
PACKAGE = files("attnlib", ".py", *BESIDE)
PIPELINE = files("book/pipeline", ".py")
PROSE = ["index.md", "_config.yml", "_toc.yml", *(path for path in files("book") if path not in PIPELINE)]


wildcard_constraints:
    profile="smoke|quick|paper",
    notebook="[A-Za-z0-9_]+",
    sweep="[^/]+",
    run="[0-9a-f]{10}",


localrules:
    all,
    book,


rule all:
    input:
        f"build/{PROFILE}/reproduced.txt",


rule notebook:
    input:
        notebook="notebooks/{notebook}.ipynb",
        parameters="notebooks/profiles/{notebook}/{profile}.yaml",
        models=needed,
        records=lambda wildcards: [
            *files(f"results/{wildcards.notebook}"),
            *files(f"results/models/{wildcards.notebook}"),
        ],
        code=lambda wildcards: code_of(f"notebooks/{wildcards.notebook}.ipynb"),
        environment="constraints.txt",
    output:
        notebook="build/{profile}/notebooks/{notebook}.ipynb",
        results=directory("build/{profile}/results/{notebook}"),
        run="build/{profile}/runs/{notebook}.json",
    log:
        "build/{profile}/logs/{notebook}.txt",
    priority: lambda wildcards: priority(wildcards.notebook, wildcards.profile)
    resources:
        mem_mb=megabytes,
        runtime=lambda wildcards: MINUTES[wildcards.profile],
    shell:
        EXECUTE + "--results {output.results:q} --run {output.run:q}"


rule sweep:
    # A run of a sweep: a chapter with parameters that `book.pipeline.sweep` laid out.
    input:
        notebook=lambda wildcards: f"notebooks/{swept(wildcards)}.ipynb",
        parameters=laid_out,
        code=lambda wildcards: code_of(f"notebooks/{swept(wildcards)}.ipynb"),
        environment="constraints.txt",
    output:
        notebook="build/sweeps/{sweep}/notebooks/{run}.ipynb",
    log:
        "build/sweeps/{sweep}/logs/{run}.txt",
    params:
        # No output: what a failed run has put there, Snakemake would remove, and its record took hours.
        results=recorded_in,
    resources:
        mem_mb=config.get("megabytes", MEGABYTES["quick"]),
        runtime=config.get("minutes", MINUTES["quick"]),
    shell:
        EXECUTE + "--results {params.results:q}"


rule book:
    input:
        lambda wildcards: executed(wildcards.profile),
        # The status page says which records this build reproduced; the first page judges claims by them, and has models.
        records=files("results", ".parquet", ".json", ".safetensors"),
        own=lambda wildcards: own_records(),
        prose=PROSE,
        package=PACKAGE,
        code=PIPELINE,
    output:
        # Written last, when the pages in html/ are replaced as a whole. They are no output themselves: Snakemake
        # would remove those of the build before when it begins, and where it fails.
        "build/{profile}/reproduced.txt",
    log:
        "build/{profile}/logs/book.txt",
    shell:
        "{sys.executable:q} -m book.pipeline.stage build/{wildcards.profile} --log {log:q}"


onstart:
    # A log has words only where something failed; those of an earlier run of the same would be read as news.
    for job in workflow.dag.needrun_jobs():
        for path in job.log:
            Path(path).unlink(missing_ok=True)
    for line in about_to_run(((job, workflow.dag.reason(job)) for job in workflow.dag.needrun_jobs()), PROFILE):
        print(line, flush=True)


onerror:
    # Snakemake's own account is long and names a shell command; a reader needs the notebook and the cell.
    for path in sorted({path for job in workflow.dag.needrun_jobs() for path in job.log}):
        headline = Path(path).read_text(encoding="utf-8").strip().split("\n\n")[0] if Path(path).exists() else ""
        if headline:
            print(f"\n{headline}\nMore in {path}", file=sys.stderr)
