// What the npm package salesforce-pubsub-api-client receives, as one JSON document on standard output. Settings come in
// the environment.
import PubSubApiClient from 'salesforce-pubsub-api-client';

const env = process.env;
const quiet = { debug() {}, info() {}, warn() {}, error(...words) { console.error(...words); } };
const place = {
    loginUrl: env.SALESFORCE_INSTANCE_URL,
    pubSubEndpoint: env.SFCDC_PUBSUB_ENDPOINT,
    // The package trusts no authority but those in a file of its own.
    rejectUnauthorizedSsl: false,
};
const logins = {
    'username-password': {
        username: env.SALESFORCE_USERNAME, password: env.SALESFORCE_PASSWORD, userToken: env.SALESFORCE_SECURITY_TOKEN,
    },
    'oauth-client-credentials': { clientId: env.SALESFORCE_CLIENT_ID, clientSecret: env.SALESFORCE_CLIENT_SECRET },
};

async function connected(authType) {
    const client = new PubSubApiClient({ authType, ...place, ...logins[authType] }, quiet);
    await client.connect();
    return client;
}

function collected(subscribe, after) {
    return new Promise((resolve, reject) => {
        const events = [];
        subscribe((subscription, kind, data) => {
            if (kind === 'event') events.push(data);
            if (kind === 'error') reject(data);
            if (kind === 'lastEvent') resolve(after ? after(subscription, events) : events);
        });
    });
}

const first = await connected('oauth-client-credentials');
const all = await collected((callback) => first.subscribeFromEarliestEvent('/data/AccountChangeEvent', callback, 4));
first.close();

const second = await connected('username-password');
const later = await collected((callback) =>
    second.subscribeFromReplayId('/data/AccountChangeEvent', callback, 2, all[1].replayId));

const committed = await new Promise((resolve, reject) => {
    let request;
    const events = [];
    second.subscribeWithManagedSubscription('Managed_Accounts', (subscription, kind, data) => {
        if (kind === 'error') reject(data);
        if (kind === 'event') events.push(data);
        if (kind === 'lastEvent') request = second.commitReplayId(subscription.subscriptionId, events[1].replayId);
        // The package takes the answer to a commit for a keepalive, as it has no events.
        if (kind === 'grpcKeepAlive' && request) resolve({ events, request });
    }, 3).catch(reject);
});
console.log(JSON.stringify({ all, later, committed }, (_, value) => (typeof value === 'bigint' ? String(value) : value)));
second.close();
process.exit(0); // close() ends no stream: the org would end them after a minute
