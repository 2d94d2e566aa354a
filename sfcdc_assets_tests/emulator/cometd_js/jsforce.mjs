// The same with jsforce's streaming client.
import jsforce from "jsforce";
import { StreamingExtension } from "jsforce/lib/api/streaming.js";

const [url, channel, place] = process.argv.slice(2);
const instanceUrl = new URL(url).origin;
const connection = new jsforce.Connection({ instanceUrl, accessToken: process.env.TOKEN, version: "60.0" });
const replay = new StreamingExtension.Replay(channel, Number(place));
const failed = new StreamingExtension.AuthFailure(() => console.log("refused"));
const client = connection.streaming.createClient([failed, replay]);
client
  .subscribe(channel, (data) => console.log(`event ${data.event.replayId}`))
  .then(() => console.log("subscribed"), (error) => console.log(`refused ${error}`));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
