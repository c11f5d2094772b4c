#!/usr/bin/env bash
# Slurm's mails (sbatch --mail-type) as messages of the environment's SNS topic.
#
#   slurm-mail.sh -s SUBJECT USER   Slurm's MailProg: puts a mail into the spool, and waits for nothing
#   slurm-mail.sh send              publishes the mails of the spool; trainyard-mail.service, as root
#
# Two steps, because on a head node with `Imds: Secured` SlurmUser has no access to the instance's credentials. The attribute `user` is the
# job's owner, so that a subscription's filter can be for one user's jobs. The mails of a user that wait together are one message. A mail that cannot be published is logged and dropped.
set -euo pipefail
umask 077

# Overridable.
TRAINYARD_SETTINGS="${TRAINYARD_SETTINGS:-/opt/trainyard/settings.json}"
TRAINYARD_MAILS="${TRAINYARD_MAILS:-/var/spool/trainyard/mail}"
LOG_NAME=slurm-mail
export AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=3

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
readonly HERE
. "${HERE}/../lib/base.sh"
. "${HERE}/../lib/settings.sh"

# The request of `aws sns publish`. SNS takes subjects of less than 100 printable ASCII characters.
# shellcheck disable=SC2016 # $subject is jq's
readonly REQUEST='def attribute: {DataType: "String", StringValue: ((. // "") | if . == "" then "-" else . end)};
  {Subject: ($subject | gsub("[^ -~]"; " ") | .[:99]),
   Message: "\($subject | gsub("[[:cntrl:]]"; " "))

User: \(env.SLURM_JOB_USER)
Partition: \(env.SLURM_JOB_PARTITION)
Nodes: \(env.SLURM_JOB_NODELIST // "none")
Folder: \(env.SLURM_JOB_WORK_DIR // "unknown")
Cluster: \(env.SLURM_CLUSTER_NAME)",
   MessageAttributes: {kind: ("job" | attribute), user: (env.SLURM_JOB_USER | attribute), job: (env.SLURM_JOB_ID | attribute)}}'

mail::queue() {
  local temporary
  [[ -w "${TRAINYARD_MAILS}" ]] || return 0 # an environment without monitoring
  temporary="$(mktemp "${TRAINYARD_MAILS}/.XXXXXXXX")"
  jq -n --arg subject "$1" "${REQUEST}" >"${temporary}"
  mv "${temporary}" "${temporary%/*}/job-${SLURM_JOB_ID:-}${temporary##*/}.json"
}

# One request for each user. Of many mails the message has the first 100 subjects: an array sends some for each task.
readonly GROUP='group_by(.MessageAttributes.user.StringValue)[] | length as $count | if $count == 1 then .[0] else .[0] + {
  Subject: "\($count) mails of Slurm, the first: \(.[0].Subject)"[:99],
  Message: ([.[:100][] | .Subject] + if $count > 100 then ["and \($count - 100) more"] else [] end | join("\n"))} end'

mail::send() {
  local region topic file request message files=()
  region="$(settings::get .region)"
  topic="$(settings::get .monitoring.topic_arn)"
  for file in "${TRAINYARD_MAILS}"/*.json; do
    [[ ! -f "${file}" || -L "${file}" ]] || files+=("${file}")
  done
  ((${#files[@]})) || return 0
  files=("${files[@]:0:5000}") # below the kernel's limit of arguments
  message="$(mktemp)"          # not in the spool, where the user slurm could replace it by a link
  while IFS= read -r request; do
    printf '%s' "${request}" >"${message}"
    aws sns publish --region "${region}" --topic-arn "${topic}" --cli-input-json "file://${message}" --query MessageId \
      --output text --cli-connect-timeout 10 --cli-read-timeout 20 || log::warn "not published: $(jq -r .Subject <<<"${request}")"
  done < <(jq -sc "${GROUP}" "${files[@]}")
  rm -f -- "${message}" "${files[@]}"
}

case "${1:-}" in
  -s) mail::queue "${2:-}" ;;
  send) mail::send ;;
  *) log::exit 64 "give -s SUBJECT USER, as Slurm does, or send" ;;
esac
