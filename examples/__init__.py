"""Programs as users of Dueledger would write them."""
