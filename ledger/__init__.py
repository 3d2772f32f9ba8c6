"""The lowest layer: vocabulary, states, definitions, rules, and all access to Postgres."""
