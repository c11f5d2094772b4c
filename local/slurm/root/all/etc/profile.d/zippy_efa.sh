# shellcheck shell=sh
# As the EFA installer leaves it on every node of ParallelCluster's AMI.
export PATH="/opt/amazon/efa/bin:${PATH}"
