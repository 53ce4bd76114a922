"""`python -m calmix` is `calmix`."""

from calmix.cli import main

if __name__ == "__main__":
    main()
