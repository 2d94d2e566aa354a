"""The org served: certificates, sessions, the server, and what a client needs to find it."""
