// A certified OpenID Connect issuer for the tests of the service, on a free port of loopback. It prints its address, sets its
// clock off by the seconds of each line that it reads, and ends with its input. Its argument is {audience, tenants, clients}:
// people sign in by any name, and may read.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const { audience, tenants, clients } = JSON.parse(process.argv[2]);
const rights = { scope: "read", tenants };

function makeKey(alg, type, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: "jwk" }), alg, kid: randomUUID(), use: "sig" };
}

function start() {
  const url = `http://127.0.0.1:${server.address().port}`;
  const issuer = new Provider(url, {
    claims: { openid: ["sub"], due: Object.keys(rights) },
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    clients,
    conformIdTokenClaims: false,
    cookies: { keys: [randomUUID()] },
    extraTokenClaims: () => ({ tenants }),
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        defaultResource: () => audience,
        getResourceServerInfo: (_, resource) => ({
          accessTokenFormat: "jwt",
          audience: resource,
          jwt: { sign: { alg: "PS256" } },
          scope: "read emit",
        }),
        useGrantedResource: () => true,
      },
    },
    findAccount: (_, name) => ({ accountId: name, claims: () => ({ sub: name, ...rights }) }),
    jwks: {
      keys: [makeKey("ES256", "ec", { namedCurve: "P-256" }), makeKey("PS256", "rsa", { modulusLength: 2048 })],
    },
  });
  server.on("request", issuer.callback());
  console.log(url);
}

console.info = console.warn; // notices of the library
const now = Date.now;
const server = createServer().listen(0, "127.0.0.1", start);
createInterface({ input: process.stdin })
  .on("line", (seconds) => {
    Date.now = () => now() + 1000 * seconds;
    console.log(seconds);
  })
  .on("close", () => process.exit());
