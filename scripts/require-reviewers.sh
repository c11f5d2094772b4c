#!/usr/bin/env bash
# Fails unless an environment of the GitHub repository allows only selected branches and has required reviewers. A job that names a
# missing environment creates it without either, and then starts from any branch without an approval.
#
#   GH_TOKEN=... GITHUB_REPOSITORY=owner/name scripts/require-reviewers.sh [--branches-only] prod
#
# --branches-only: for an environment without approvals.
set -euo pipefail

reviewers=yes
if [[ "${1:-}" == --branches-only ]]; then
  reviewers=no
  shift
fi
if (($# != 1)) || [[ -z "${GITHUB_REPOSITORY:-}" ]]; then
  printf 'usage: GITHUB_REPOSITORY=owner/name %s [--branches-only] ENVIRONMENT\n' "$0" >&2
  exit 2
fi
readonly environment="$1" reviewers

refuse() { # FAULT ACTION
  printf '::error::The environment %s of %s %s. ' "$environment" "$GITHUB_REPOSITORY" "$1" >&2
  printf '%s in the settings of the repository, under Environments, and run this again.\n' "$2" >&2
  exit 1
}

found=$(gh api "repos/$GITHUB_REPOSITORY/environments/$environment" \
  --jq '"limited=\(.deployment_branch_policy != null) rules=\([.protection_rules[].type] | join(","))"')
if [[ "$found" != "limited=true "* ]]; then
  refuse "lets in every branch" "Limit its deployment branches"
fi
if [[ "$reviewers" == yes && ",${found#*rules=}," != *,required_reviewers,* ]]; then
  refuse "has no required reviewers, so nobody has approved" "Add reviewers"
fi
