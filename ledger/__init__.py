"""The ground floor: vocabulary, states, definitions, and the only door to Postgres."""
