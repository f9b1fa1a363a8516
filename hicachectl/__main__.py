"""`python -m hicachectl`: the same as the script."""

from hicachectl.cli import main

if __name__ == "__main__":
    main()
