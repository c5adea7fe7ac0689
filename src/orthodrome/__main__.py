"""`python -m orthodrome` is the command `orthodrome`."""

from orthodrome.cli import main

main()
