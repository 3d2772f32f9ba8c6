"""Run: call handlers while the runs' leases last."""
