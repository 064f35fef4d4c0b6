"""`python -m restow` is `restow`."""

from restow.cli import main

main()
