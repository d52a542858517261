// Answer questions about Oblivious HTTP: on standard input [[kind, ...arguments], ...], bytes in hex. Prints each
// result, or {error} with its message. It is also the gateway of these tests.

import { readFileSync } from "node:fs";
import { decodeResponse, encodeRequest } from "../../client/javascript/arcwise/bhttp.js";
import { fromHex, toHex } from "../../client/javascript/arcwise/hex.js";
import { aead, bytesOf, concat, exported, schedule, sharedSecret } from "../../client/javascript/arcwise/hpke.js";
import { answerKeys, parseKeys, requestInfo, seal } from "../../client/javascript/arcwise/ohttp.js";

const PKCS8 = "302e020100300506032b656e04220420";

/** The pair of a secret key in hex, which no export of the package accepts, and its public bytes. */
async function pairOf(secret) {
  const privateKey = await crypto.subtle.importKey("pkcs8", fromHex(PKCS8 + secret), "X25519", true, ["deriveBits"]);
  const { kty, crv, x } = await crypto.subtle.exportKey("jwk", privateKey);
  const publicKey = await crypto.subtle.importKey("jwk", { kty, crv, x }, "X25519", true, []);
  return { publicKey, privateKey, bytes: await bytesOf(publicKey) };
}

/** Return what a gateway with this key reads in a request, and its answer. */
export async function unseal(secret, body) {
  const { privateKey, bytes } = await pairOf(secret);
  const [header, enc, ciphertext] = [body.slice(0, 7), body.slice(7, 39), body.slice(39)];
  const shared = await sharedSecret(privateKey, enc, concat(enc, bytes));
  const keys = await schedule(shared, requestInfo({ header }));
  return {
    message: await aead("decrypt", keys, ciphertext),
    answer: async (message, nonce = crypto.getRandomValues(new Uint8Array(16))) =>
      concat(nonce, await aead("encrypt", await answerKeys(keys, enc, nonce), message)),
  };
}

const KINDS = {
  async hpke(sender, receiver, info, [aad, message], contexts) {
    const [one, other] = [await pairOf(sender), await pairOf(receiver)];
    const context = concat(one.bytes, other.bytes);
    const secrets = [
      toHex(await sharedSecret(one.privateKey, other.bytes, context)),
      toHex(await sharedSecret(other.privateKey, one.bytes, context)),
    ];
    const keys = await schedule(fromHex(secrets[0]), fromHex(info));
    return {
      secrets,
      enc: toHex(one.bytes),
      ...Object.fromEntries(Object.entries(keys).map(([name, bytes]) => [name, toHex(bytes)])),
      sealed: toHex(await aead("encrypt", keys, fromHex(message), fromHex(aad))),
      exports: await Promise.all(contexts.map(async (each) => toHex(await exported(keys, fromHex(each), 32)))),
    };
  },
  keys(keys) {
    const { header, publicKey } = parseKeys(fromHex(keys));
    return [toHex(header), toHex(publicKey)];
  },
  open: async (secret) => toHex((await pairOf(secret)).bytes),
  async seal(keys, message, secret, answer) {
    const sealed = await seal(parseKeys(fromHex(keys)), fromHex(message), secret && (await pairOf(secret)));
    return [toHex(sealed.body), typeof answer === "string" && toHex(await sealed.open(fromHex(answer)))];
  },
  async unseal(secret, body, answer, nonce) {
    const opened = await unseal(secret, fromHex(body));
    return [toHex(opened.message), typeof answer === "string" && toHex(await opened.answer(fromHex(answer), nonce && fromHex(nonce)))];
  },
  request: ({ method, scheme, authority, path, fields }, content) =>
    toHex(encodeRequest(method, { protocol: `${scheme}:`, host: authority, pathname: path, search: "" }, fields, fromHex(content))),
  response(message) {
    const { status, fields, content } = decodeResponse(fromHex(message));
    return { status, fields, content: toHex(content) };
  },
};

if (process.argv[1] === import.meta.filename) {
  const answers = [];
  for (const [kind, ...given] of JSON.parse(readFileSync(0, "utf8"))) {
    answers.push(await Promise.resolve(given).then((each) => KINDS[kind](...each)).catch(({ message }) => ({ error: message })));
  }
  console.log(JSON.stringify(answers));
}
