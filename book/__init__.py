"""The book: a folder of code for every chapter, and what builds the pages."""
