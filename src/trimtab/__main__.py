"""`python -m trimtab` is `trimtab`."""

from trimtab.cli.main import main

if __name__ == "__main__":
    main()
