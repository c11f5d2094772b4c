// What the published CDK packages know of CloudFormation templates, as JSON on stdout. Two commands:
//
//   node cdk.mjs rules                      {type: {stateful, replacing: {"Path.Of.Property": always}}}
//   node cdk.mjs diff < [{name, old, new}]  [{text, security, broadened}], in the order of the input
//
// `replacing` has the properties whose change replaces a resource: always (true), or in some cases (false). `broadened`
// is what `cdk deploy --require-approval broadening` asks about.
//
// @aws-cdk/toolkit-lib would add 110 MB and calls the same functions. Its own comparison does not look below the first
// level of properties (FSx keeps all of its there) and does not follow references to other stacks: ops/review does.
import { loadAwsServiceSpecSync } from "@aws-cdk/aws-service-spec";
import { formatDifferences, formatSecurityChanges, fullDiff } from "@aws-cdk/cloudformation-diff";
import { readFileSync, writeSync } from "node:fs";
import { Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";

const DEPTH = 8;
const COLUMNS = 1000; // Names in tables must not be cut into lines.

function rules() {
  const specification = loadAwsServiceSpecSync();
  const found = {};
  for (const resource of specification.all("resource")) {
    const replacing = Object.fromEntries(replacingIn(specification, resource.properties, [], DEPTH));
    found[resource.cloudFormationType] = { stateful: resource.isStateful === true, replacing };
  }
  return found;
}

function* replacingIn(specification, properties, above, depth) {
  for (const [name, property] of Object.entries(properties ?? {})) {
    const path = [...above, name];
    if (property.causesReplacement === "yes" || property.causesReplacement === "maybe") {
      yield [path.join("."), property.causesReplacement === "yes"];
    } else if (depth > 0 && property.type.type === "ref") {
      const nested = specification.get("typeDefinition", property.type.reference.$ref);
      yield* replacingIn(specification, nested.properties, path, depth - 1);
    }
  }
}

function diff(stacks) {
  return stacks.map(({ name, old, new: now }) => {
    const difference = fullDiff(old, now);
    const broadened = difference.permissionsBroadened;
    const security = printed((stream) => formatSecurityChanges(stream, difference));
    // As the CDK CLI does: the check of the bootstrap version is not a change of the stack.
    difference.unknown = difference.unknown.filter(
      (change) => !(change?.oldValue ?? change?.newValue)?.CheckBootstrapVersion,
    );
    const text = difference.isEmpty ? "" : printed((stream) => formatDifferences(stream, difference));
    return { text: titled(name, text), security: titled(name, security), broadened };
  });
}

function printed(write) {
  const parts = [];
  const stream = new Writable({ write: (part, _encoding, done) => (parts.push(part.toString()), done()) });
  stream.columns = COLUMNS;
  write(stream);
  return stripVTControlCharacters(parts.join("")).trim();
}

const titled = (name, text) => (text ? `Stack ${name}\n${text}` : "");

const [command] = process.argv.slice(2);
const answer = JSON.stringify(command === "rules" ? rules() : diff(JSON.parse(readFileSync(0, "utf8"))));
// Not console.log: a pipe takes it in parts, and the process may end before the last.
let rest = Buffer.from(answer);
while (rest.length) rest = rest.subarray(writeSync(1, rest));
