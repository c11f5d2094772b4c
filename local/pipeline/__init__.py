"""CodePipeline and CodeBuild on loopback: walks a synthesized pipeline, action by action, in the emulated AWS.

It knows no pipeline in particular: stages, actions, build projects and roles are read from the emulated AWS, where the
CDK CLI has deployed them.
"""
