#!/usr/bin/env bash
# people_root.sh FOLDER: in mount namespaces of its own, as root. Makes a root from this machine's own under an overlay, with the programs of
# cluster_assets/people, and runs each line of FOLDER/steps there with bash; outputs and exit statuses go to FOLDER/answers, one line of JSON each.
set -euo pipefail
readonly FOLDER="$1" ROOT="$1/layers/root"
mkdir -p "${FOLDER}/layers"
mount -t tmpfs -o mode=0755 layers "${FOLDER}/layers"
mkdir "${FOLDER}"/layers/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=${FOLDER}/layers/upper,workdir=${FOLDER}/layers/work" overlay "${ROOT}"
mount -t proc proc "${ROOT}/proc"
mount --rbind /dev "${ROOT}/dev"
for share in run home fsx; do
  mkdir -p "${ROOT}/${share}"
  mount -t tmpfs -o mode=0755 "${share}" "${ROOT}/${share}"
done
cp -R "${FOLDER}/files/." "${ROOT}/"
while read -r step; do
  status=0
  output="$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin chroot "${ROOT}" bash -c "${step}" 2>"${FOLDER}/errors" </dev/null)" || status=$?
  jq -cn --arg output "${output}" --arg errors "$(<"${FOLDER}/errors")" --argjson status "${status}" '$ARGS.named'
done <"${FOLDER}/steps" >"${FOLDER}/answers"
