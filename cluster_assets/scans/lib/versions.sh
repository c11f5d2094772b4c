# shellcheck shell=bash
# Versions as the tools of these nodes print them, and their order.

# of TEXT: the first version in it (535.54.03 of "Driver 535.54.03-ubuntu", 25.11.8 of "slurm 25.11.8"); nothing where there is none.
versions::of() {
  [[ "$1" =~ [0-9]+(\.[0-9]+)+ ]] && printf '%s' "${BASH_REMATCH[0]}"
  return 0
}

# at_least FOUND WANTED: number by number, so that 1.22.0 is newer than 1.8.1 and 535.104.05 newer than 535.54.03; a number that is
# not there counts as 0.
versions::at_least() {
  local -a found wanted
  local index
  IFS=. read -r -a found <<<"$1"
  IFS=. read -r -a wanted <<<"$2"
  for ((index = 0; index < ${#wanted[@]}; index++)); do
    # 10# because 08 is no octal number.
    if ((10#${found[index]:-0} != 10#${wanted[index]})); then
      ((10#${found[index]:-0} > 10#${wanted[index]}))
      return
    fi
  done
  return 0
}
