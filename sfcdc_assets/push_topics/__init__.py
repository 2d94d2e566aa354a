"""PushTopics: definitions kept as files, the check of their queries, the plan that brings an org to them, and what
their notifications say of records.

Pure but for `org_topics`, which reads and changes the topics of an org by REST. See the Streaming API Developer Guide,
chapters "Working with PushTopics" and "PushTopic":
https://developer.salesforce.com/docs/atlas.en-us.api_streaming.meta/api_streaming/working_with_pushtopics.htm
"""
