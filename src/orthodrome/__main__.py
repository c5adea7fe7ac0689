"""`python -m orthodrome` is the command `orthodrome`."""

from orthodrome.cli import main

if __name__ == "__main__":
    main()
