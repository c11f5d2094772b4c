"""Shared by all tests."""

import os

# The CDK's built-in template validation starts a WASM engine: 2.3 s a process, 1.5 s per 100 resources. cfn-lint and
# cdk-nag check the templates in tests of their own.
os.environ.setdefault("CDK_VALIDATION", "false")
