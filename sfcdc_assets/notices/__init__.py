"""What a person is told without asking: what is new in the tables since the last look, and to whom it is sent."""
