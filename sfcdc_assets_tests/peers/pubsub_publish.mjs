// What the npm package salesforce-pubsub-api-client publishes, one event and a batch, and what it then receives of them,
// as one JSON document on standard output. Settings come in the environment.
import PubSubApiClient from 'salesforce-pubsub-api-client';

const env = process.env;
const quiet = { debug() {}, info() {}, warn() {}, error(...words) { console.error(...words); } };
const topic = '/event/Order_Event__e';
const client = new PubSubApiClient(
    {
        authType: 'oauth-client-credentials', loginUrl: env.SALESFORCE_INSTANCE_URL,
        pubSubEndpoint: env.SFCDC_PUBSUB_ENDPOINT, rejectUnauthorizedSsl: false,
        clientId: env.SALESFORCE_CLIENT_ID, clientSecret: env.SALESFORCE_CLIENT_SECRET,
    },
    quiet,
);
await client.connect();

const order = (number) => ({
    CreatedDate: Date.now(), CreatedById: env.PUBLISHER, Order_Number__c: { string: number },
    City__c: null, Amount__c: { double: 2.5 }, Has_Shipped__c: { boolean: true }, Shipped_On__c: null, Ordered_At__c: null,
    Remarks__c: null,
});
const one = await client.publish(topic, order('1'), 'mine');
const batch = await new Promise((resolve, reject) => {
    client.publishBatch(topic, [{ payload: order('2') }, { id: 'third', payload: order('3') }], (info, kind, data) => {
        if (kind === 'publishResponse') resolve(data);
        if (kind === 'error') reject(data);
    }).catch(reject);
});
const received = await new Promise((resolve, reject) => {
    const events = [];
    client.subscribeFromEarliestEvent(topic, (subscription, kind, data) => {
        if (kind === 'event') events.push(data);
        if (kind === 'error') reject(data);
        if (kind === 'lastEvent') resolve(events);
    }, 3);
});
console.log(JSON.stringify({ one, batch, received }, (_, value) => (typeof value === 'bigint' ? String(value) : value)));
client.close();
process.exit(0); // close() ends no stream
