// Subscribes with the CometD project's own client and prints the replay id of each event, one a line.
// Arguments: address of the endpoint, channel, place to replay from. The token comes by TOKEN.
import { adapt } from "cometd-nodejs-client";
import { CometD } from "cometd";

adapt();
const [url, channel, place] = process.argv.slice(2);
const client = new CometD();
client.unregisterTransport("websocket");
client.configure({
  url,
  requestHeaders: { Authorization: `Bearer ${process.env.TOKEN}` },
  appendMessageTypeToURL: true,
});
let replay = Number(place);
client.registerExtension("replay", {
  outgoing(message) {
    if (message.channel === "/meta/handshake") message.ext = { ...message.ext, replay: true };
    if (message.channel === "/meta/subscribe") message.ext = { ...message.ext, replay: { [channel]: replay } };
    return message;
  },
});
client.addListener("/meta/handshake", (reply) => {
  console.log(reply.successful ? "handshake" : `refused ${JSON.stringify(reply)}`);
  if (!reply.successful) return;
  client.subscribe(channel, (message) => {
    replay = message.data.event.replayId;
    console.log(`event ${replay}`);
  }, (answer) => console.log(answer.successful ? "subscribed" : `refused ${answer.error}`));
});
client.handshake();
process.stdin.resume();
process.stdin.on("end", () => client.disconnect(() => process.exit(0)));
