// The start of every Node function of the emulator: HTTPS to the emulator's own address is HTTP at its port. CDK's
// functions answer CloudFormation with https.request({hostname, path}), which names neither scheme nor port.
"use strict";

const http = require("http");
const https = require("https");

const endpoint = new URL(process.env.AWS_ENDPOINT_URL || "http://127.0.0.1:4566");
const request = https.request;

https.request = function (target, ...rest) {
  const options = typeof target === "string" ? new URL(target) : target;
  if (options && (options.hostname || options.host) === endpoint.hostname) {
    const plain = {
      method: options.method, headers: options.headers, path: options.path || options.pathname,
      hostname: endpoint.hostname, port: endpoint.port,
    };
    return http.request(plain, ...rest);
  }
  return request.call(https, target, ...rest);
};
