#!/usr/bin/env bash
# Fails unless an environment of the GitHub repository has required reviewers. A job that names an environment which is not
# there makes it, without any: then the job starts by itself, and nobody was asked.
#
#   GH_TOKEN=... GITHUB_REPOSITORY=owner/name scripts/require-reviewers.sh prod
set -euo pipefail

if (($# != 1)) || [[ -z "${GITHUB_REPOSITORY:-}" ]]; then
  printf 'usage: GITHUB_REPOSITORY=owner/name %s ENVIRONMENT\n' "$0" >&2
  exit 2
fi
readonly environment="$1"

rules=$(gh api "repos/$GITHUB_REPOSITORY/environments/$environment" --jq '[.protection_rules[].type] | join(" ")')
if [[ " $rules " != *" required_reviewers "* ]]; then
  printf '::error::The environment %s of %s has no required reviewers, so nobody has approved. ' \
    "$environment" "$GITHUB_REPOSITORY" >&2
  printf 'Add reviewers in the settings of the repository, under Environments, and run this again.\n' >&2
  exit 1
fi
