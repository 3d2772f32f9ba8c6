"""`python -m dueledger` is the `dueledger` command."""

from dueledger.cli import main

raise SystemExit(main())
