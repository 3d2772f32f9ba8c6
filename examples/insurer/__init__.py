"""An insurer: a domain service with its own tables that owes its customers renewals."""
