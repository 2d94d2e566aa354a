"""PushTopics: their definitions as files, the check of their queries, the plan that brings an org to them, and what
is known of their records."""
