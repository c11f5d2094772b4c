# shellcheck shell=bash
# As the cookbook's template of this name writes it, with the laboratory's folder.
CFN_BOOTSTRAP_VIRTUALENV_PATH=/usr/local/lib/lab/cfn
export CFN_BOOTSTRAP_VIRTUALENV_PATH
