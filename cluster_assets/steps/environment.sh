#!/usr/bin/env bash
# The environment's names as shell variables: /opt/trainyard/pcluster-env.sh, which login shells read, and ~/pcluster-env.sh for scripts
# that source it. A user's first login creates the latter: root writes to no home, and later users get it too.
. "${BASH_SOURCE[0]%/*}/../lib/common.sh"

environment::variables() {
  jq -r '
    {
      TRAINYARD_ENVIRONMENT: .environment,
      CLUSTER_NAME: .cluster.name,
      AWS_REGION: .region,
      AWS_DEFAULT_REGION: .region,
      ECR_REPO_NAME: .repositories[0].name,
      ECR_REPO_URI: .repositories[0].uri,
      S3_BUCKET_NAME: .buckets.data,
      S3_CHECKPOINTS_BUCKET_NAME: .buckets.checkpoints,
      LUSTRE_BASE: .bases.lustre,
      SHARED_BASE: .bases.shared,
      DATA_DIR: .folders.data,
      CHECKPOINTS_DIR: .folders.checkpoints,
      LOGS_DIR: .folders.logs,
      RESULTS_DIR: .folders.results,
      CONTAINER_IMAGES_DIR: .folders.images,
      SCRIPTS_DIR: .folders.scripts,
      TRAINYARD_SCRIPTS: (if .folders.scripts then .folders.scripts + "/current" else "/opt/trainyard/current" end)
    } | to_entries[] | select(.value != null) | "export \(.key)=\(.value | @sh)"
  ' "${TRAINYARD_SETTINGS}" || log::fail "cannot read ${TRAINYARD_SETTINGS}: publish the assets again"
}

environment::main() {
  local variables
  variables="$(environment::variables)"
  files::write "${TRAINYARD_ROOT}/opt/trainyard/pcluster-env.sh" 0644 <<<"# Written by Trainyard from settings.json; do not edit.
${variables}"
  files::write "${TRAINYARD_ROOT}/etc/profile.d/trainyard.sh" 0644 <<'END'
# Written by Trainyard; do not edit.
if [ -r /opt/trainyard/pcluster-env.sh ]; then
  . /opt/trainyard/pcluster-env.sh
  # Last, so that it hides no system command.
  case ":${PATH}:" in
    *":${TRAINYARD_SCRIPTS}/images:"*) ;;
    *) PATH="${PATH}:${TRAINYARD_SCRIPTS}/images:${TRAINYARD_SCRIPTS}/scans:${TRAINYARD_SCRIPTS}/jobs" && export PATH ;;
  esac
  if [ "$(id -u)" != 0 ] && [ -w "${HOME:-/nonexistent}" ] && [ ! -e "${HOME}/pcluster-env.sh" ]; then
    echo '. /opt/trainyard/pcluster-env.sh' >"${HOME}/pcluster-env.sh" || true
  fi
fi
END
}

environment::main
