"""The programs that the Snakefile runs (`execute`: a chapter; `stage`: the book), and `make book` itself."""
