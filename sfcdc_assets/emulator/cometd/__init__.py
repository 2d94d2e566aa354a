"""The Streaming API of the emulated org: Bayeux over long polling, change events as JSON (docs/salesforce-streams.md,
"Streaming API (CometD)")."""
