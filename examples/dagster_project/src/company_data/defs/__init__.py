"""What the project defines: Salesforce's tables, and what is built on them."""
