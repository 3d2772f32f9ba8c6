"""Run: call handlers while the leases hold."""
