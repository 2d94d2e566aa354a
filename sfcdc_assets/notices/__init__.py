"""What is reported to a person unasked: what is new in the tables since the last look, and to whom it is sent."""
