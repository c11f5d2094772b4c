"""What a change does to a deployment, said before it is made (docs/review.md)."""
