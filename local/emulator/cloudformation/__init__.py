"""CloudFormation types that ministack lacks."""
