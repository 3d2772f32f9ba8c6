"""An insurer: a domain service with tables of its own, that owes its customers renewals."""
