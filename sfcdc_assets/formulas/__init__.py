"""Formula fields: what their texts say of what they are computed from, and when their values have to be read again."""
