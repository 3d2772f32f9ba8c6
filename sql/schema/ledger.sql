create schema ledger;
