"""PushTopics: the org's topics brought to their files, and their tables."""
